"""Method × data set × seed → timed records → tables and a page beside the paper's figures."""
