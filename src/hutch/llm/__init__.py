"""Models: providers behind one streaming interface, and a scripted model that needs no network."""
