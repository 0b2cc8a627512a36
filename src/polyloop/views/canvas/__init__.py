"""A canvas as files for people and other programs. Pure: a `Board` in, bytes out; the same board gives the same bytes."""
