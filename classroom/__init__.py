"""For teachers: the course as pages and slides that need no network."""
