"""Bodies of requests and responses. The OpenAPI description is made from these."""
