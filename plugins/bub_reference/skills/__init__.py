"""Found as the package `skills`, where the other Bub keeps its skills, if no installed package has any."""
