"""Looking at models: pictures and numbers."""
