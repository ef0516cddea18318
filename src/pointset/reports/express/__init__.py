"""Pages of pictures of what ``pointset express`` finds. They need matplotlib."""
