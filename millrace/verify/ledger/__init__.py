"""A verdict in segments, on a stream that never ends: each segment is judged once, from a state that is data."""
