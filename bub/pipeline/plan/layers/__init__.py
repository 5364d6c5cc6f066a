"""Who says what of the settings: files and variables one over another, and what a person sets once for every folder."""
