"""Who thinks: the providers behind one stream, and a scripted model that needs no network."""
