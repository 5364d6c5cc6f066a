"""Messages of any shape, read as Bub reads them."""

from bub.envelope import Envelope as Envelope
from bub.envelope import content_of as content_of
from bub.envelope import field_of as field_of
from bub.envelope import normalize_envelope as normalize_envelope
from bub.envelope import unpack_batch as unpack_batch
