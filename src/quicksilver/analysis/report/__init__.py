"""Pages with the papers' figures as our runs have them."""
