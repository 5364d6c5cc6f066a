"""How a message comes to its session: what plugins say of letting it in, and what its turn has made until then."""
