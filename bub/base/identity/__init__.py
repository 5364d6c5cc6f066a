"""Whose memory is used where: what gives an agent its name. What lies under that name is for the stores."""
