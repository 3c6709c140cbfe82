"""One module per method, one shared loop, and the walk over chunks."""
