"""What to type so that packages are installed where Bub runs. What Bub installs itself is in `bub/setup/packages/`."""
