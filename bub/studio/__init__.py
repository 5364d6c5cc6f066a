"""Studio: the page that shows what runs, and what it is served with."""
