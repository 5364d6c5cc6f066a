"""What a turn may use, what it has used, and what that costs."""
