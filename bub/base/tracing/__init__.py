"""What a turn does inside its stages, and how traces of other programs know it. Nobody is sent anything from here."""
