"""What every room shares that writes results: files, the origin of a row, the bootstrap."""
