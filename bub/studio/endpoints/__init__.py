"""What the page asks of the server: a module for each subject, a function for each endpoint."""
