"""What the page shows, worked out: values in, values of JSON out. Nothing here serves, and nothing runs a turn."""
