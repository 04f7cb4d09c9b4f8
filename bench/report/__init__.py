"""The page people hand on: one module for each kind of result, `page` to put their sections together."""
