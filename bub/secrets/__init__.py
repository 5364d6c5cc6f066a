"""What is secret, and how it is kept out of what people read.

Which values of a document are secret is a matter of its plan."""
