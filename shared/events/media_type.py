"""What a Content-Type header says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaType:
    """A media type and its charset, both lower-case."""

    name: str
    charset: str = "utf-8"

    @classmethod
    def of(cls, header: str) -> MediaType:
        """Read the value of the header; what makes no sense is no known type."""
        name, *parameters = header.split(";")
        charset = "utf-8"
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == "charset":
                charset = value.strip().strip('"').lower()
        return cls(name=name.strip().lower(), charset=charset)

    @property
    def is_utf8(self) -> bool:
        return self.charset in {"utf-8", "utf8", "us-ascii"}

    @property
    def is_json(self) -> bool:
        return self.name.endswith(("/json", "+json"))

    @property
    def is_text(self) -> bool:
        return self.name.startswith("text/")
