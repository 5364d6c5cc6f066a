"""Files that nobody would write, given to `bub validate`. `make fuzz` looks for trouble, the tests look a moment."""
