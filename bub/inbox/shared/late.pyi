from bub.inbox.shared.redis.inbox import RedisInbox as RedisInbox
