"""One suite per seam: what every back end must do, a test for each sentence of the protocol."""
