from bub.inbox.shared.redis.copy_side import RedisSide as RedisSide
from bub.inbox.shared.redis.examination import examine_store as examine_store
from bub.inbox.shared.redis.inbox import RedisInbox as RedisInbox
from bub.inbox.shared.redis.overview import read_overview as read_overview
