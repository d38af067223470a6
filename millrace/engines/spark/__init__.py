"""The Spark adapter: rules, windows and stores as Structured Streaming queries; no Python runs for each event."""
