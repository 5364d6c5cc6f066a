"""What a conversation holds (something private, something that strangers may have written), and what asks for it."""
