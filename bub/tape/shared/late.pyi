from bub.tape.shared.store import open_redis_tapes as open_redis_tapes
