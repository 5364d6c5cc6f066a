"""How a message finds its session: what plugins say of letting it in, and what its turn has made until then."""
