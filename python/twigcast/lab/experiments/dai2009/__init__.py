"""The figures of L. Dai, *BFilter, a XML Message Filtering and Matching Approach*, Carleton 2009, chapter 4."""
