"""The two packages of the small local model: where they are, and how they are installed. A plugin answers with them."""
