"""The lowest versions that pyproject.toml allows, as constraints for pip: see `make test-lowest`."""

import re
import tomllib
from pathlib import Path

LOWER = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*>=\s*([0-9][^,;\s]*)")


def lowest(text: str) -> list[str]:
    """`name==version` for each requirement with a lower bound."""
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(each for extra in extras.values() for each in extra)]
    return sorted({f"{match[1]}=={match[2]}" for each in wanted if (match := LOWER.match(each))})


if __name__ == "__main__":
    print("\n".join(lowest((Path(__file__).parents[1] / "pyproject.toml").read_text())))
