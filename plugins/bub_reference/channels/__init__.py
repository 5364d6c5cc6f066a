"""What a channel of the reference is."""

from bub_reference.channels.base import Channel as Channel
from bub_reference.channels.base import Interface as Interface
from bub_reference.channels.base import Lifecycle as Lifecycle
from bub_reference.channels.message import ChannelMessage as ChannelMessage
from bub_reference.channels.message import MediaItem as MediaItem
