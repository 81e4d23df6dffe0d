"""The server's description in OpenAPI's form, made from the wire's own types."""

from __future__ import annotations

from maxi_mlx.api.openapi.document import Documented, OpenAPIDocument, document

__all__ = ["Documented", "OpenAPIDocument", "document"]
