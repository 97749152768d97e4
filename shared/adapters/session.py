"""The one botocore session of a function, and the data its loader reads first: service models cut down to what the
functions call. The bundle brings them (stacks/constructs/models.py); everywhere else, in tests and on a console, they
are absent and botocore reads its own. docs/decisions/cold-start.md has the figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from botocore.loaders import Loader
from botocore.session import Session

MODELS = Path(__file__).resolve().parents[2] / "models"
"""/var/task/models in Lambda, laid out like botocore/data: dynamodb/2012-08-10/service-2.json."""


class SmallModelsFirst(Loader):  # type: ignore[misc]  # botocore has no types
    """botocore's loader, with `models` in front. What is not there it reads as it always does."""

    def __init__(self, models: Path) -> None:
        super().__init__(extra_search_paths=[str(models)])
        self._models = str(models)
        self._versions = {file.parts[-3]: file.parts[-2] for file in models.glob("*/*/service-2.json")}

    def load_service_model(self, service_name: str, type_name: str, api_version: str | None = None) -> Any:
        """See Loader. It would list the folders of four hundred services, twice, to see that this one exists."""
        ours = self._versions.get(service_name)
        small = f"{self._models}/{service_name}/{ours}/{type_name}"
        if ours is None or api_version not in (None, ours) or not self.file_loader.exists(small):
            return super().load_service_model(service_name, type_name, api_version=api_version)
        return self.load_data(f"{service_name}/{ours}/{type_name}")

    def is_builtin_path(self, path: str) -> bool:
        """See Loader. Were our endpoints.json taken for a customer's, botocore would leave the endpoint rules aside."""
        return path.startswith(self._models) or bool(super().is_builtin_path(path))


def session(models: Path = MODELS) -> Session:
    """A new botocore session. A function makes one, at import, for all its clients."""
    made = Session()
    if models.is_dir():
        made.register_component("data_loader", SmallModelsFirst(models))
    return made
