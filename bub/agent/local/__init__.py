"""The two packages of the small local model: their places, and how they are installed. A plugin answers with them."""
