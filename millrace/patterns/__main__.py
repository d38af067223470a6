"""Write the generated files: the schema of pattern files, and the contracts of each use."""

from __future__ import annotations

from millrace.patterns.generated import generated


def main() -> None:
    """Write every generated file."""
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
