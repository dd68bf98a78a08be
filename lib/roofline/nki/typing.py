"""nki.typing: the shape that a kernel expects of a parameter, written as its annotation.

Source  NKI 0.3.0 Update Guide, nki.typing module
"""

from types import GenericAlias


class tensor:
    """`x: nt.tensor[128, 512]`; not checked here, as no document says what checks it."""

    def __class_getitem__(cls, shape: object) -> GenericAlias:
        return GenericAlias(cls, shape)
