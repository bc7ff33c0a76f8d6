"""The figures of A. Anand and S. Chawathe, *Cooperative Data Dissemination in a Serverless Environment* (CoDD)."""
