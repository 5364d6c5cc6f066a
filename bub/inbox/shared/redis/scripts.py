"""The scripts of the inbox: each is one step, all or nothing. What needs a lease proves it first.

`KEYS[1]` is that lease and `ARGV[1]` what it must have, "" if the caller vouches for it.
"""

from __future__ import annotations

_FENCE = """
if ARGV[1] ~= '' and redis.call('get', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED') end
"""

_NOW = """
local clock = redis.call('time')
local now = clock[1] .. '.' .. string.format('%06d', clock[2])
"""

_KEEP = """
local function keep(counter, stream, fields)
  local number = redis.call('incr', counter)
  redis.call('xadd', stream, number .. '-0', 'v', '1', 'at', now, unpack(fields))
  return number
end
"""

_FORGET = """
local function forget(number)
  redis.call('hdel', KEYS[4], number .. ':attempts', number .. ':draft')
  redis.call('del', KEYS[5] .. number)
  redis.call('srem', KEYS[5], number)
  for _, asked in ipairs(redis.call('smembers', KEYS[9] .. number)) do
    redis.call('hdel', KEYS[8], asked, asked .. ':state', asked .. ':by', asked .. ':shown')
  end
  redis.call('del', KEYS[9] .. number)
  return redis.call('xdel', KEYS[3], number .. '-0')
end
"""
"""A message is gone, with what was noted and asked for it (`PartitionKeys` has the order of the keys)."""

_POST = """
local function post(first)
  local posted = {}
  for index = first, #ARGV, 2 do
    posted[#posted + 1] = keep(KEYS[2], KEYS[6] .. ARGV[index], {'body', ARGV[index + 1]})
  end
  return posted
end
"""
"""Replies, from an argument on: the channel and the text of each. `KEYS[6]` begins the names of their streams."""

RECEIVE = (
    _NOW
    + _KEEP
    + """
if ARGV[1] ~= '' and (redis.call('zscore', KEYS[3], ARGV[1]) or redis.call('zscore', KEYS[4], ARGV[1])) then
  return false
end
local number = keep(KEYS[1], KEYS[2], {unpack(ARGV, 3)})
if ARGV[1] ~= '' then
  redis.call('zadd', KEYS[3], number, ARGV[1])
  redis.call('zremrangebyrank', KEYS[3], 0, -1 - ARGV[2])
end
return {number, now}
"""
)
"""Keep a message, unless its `once` was taken. KEYS: counter, stream, taken, what was taken before a copy.

ARGV: once, how many are known, fields.
"""

STILL_WAITS = """
local number = redis.call('zscore', KEYS[2], ARGV[1])
if not number then return 0 end
local name = string.format('%.0f', number) .. '-0'
return #redis.call('xrange', KEYS[1], name, name)
"""
"""Say whether a message still waits in the stream that took it. KEYS: stream, taken. ARGV: once."""

FIRE = (
    _NOW
    + _KEEP
    + """
if ARGV[1] ~= '' and redis.call('hexists', KEYS[3], ARGV[2]) == 1 then
  redis.call('hset', KEYS[3], ARGV[2], ARGV[1])
  redis.call('hincrby', KEYS[5], ARGV[2], ARGV[3])
end
if redis.call('zscore', KEYS[4], ARGV[4]) then return false end
redis.call('zadd', KEYS[4], ARGV[4], ARGV[4])
redis.call('zremrangebyrank', KEYS[4], 0, -1 - ARGV[5])
return {keep(KEYS[1], KEYS[2], {unpack(ARGV, 6)}), now}
"""
)
"""Claim a firing and keep its message. KEYS: counter, stream, since, fired, missed.

ARGV: until, name, missed, at, how many stay known, fields.
"""

BEGIN = (
    _FENCE
    + """
local calls, asked = {}, {}
for index = 3, #ARGV do
  redis.call('hincrby', KEYS[4], ARGV[index] .. ':attempts', ARGV[2])
  if ARGV[2] == '-1' and tonumber(redis.call('hget', KEYS[4], ARGV[index] .. ':attempts')) < 1 then
    redis.call('hdel', KEYS[4], ARGV[index] .. ':attempts')
  end
  for _, call in ipairs(redis.call('lrange', KEYS[5] .. ARGV[index], 0, -1)) do calls[#calls + 1] = call end
  for _, one in ipairs(redis.call('smembers', KEYS[9] .. ARGV[index])) do asked[#asked + 1] = one end
end
return {calls, asked}
"""
)
"""Count an attempt more, or less, for messages; return the calls noted for them, and the numbers of their questions.

ARGV: token, 1 or -1, numbers.
"""

FINISH = (
    _FENCE
    + _NOW
    + _KEEP
    + _FORGET
    + _POST
    + """
local left, count = 0, tonumber(ARGV[2])
for index = 3, 2 + count do left = left + forget(ARGV[index]) end
if count > 0 and left == 0 then return false end
return {now, unpack(post(3 + count))}
"""
)
"""Take messages out and put replies in. ARGV: token, how many, their numbers, then the replies."""

SET_ASIDE = (
    _FENCE
    + _NOW
    + _KEEP
    + _FORGET
    + _POST
    + """
local left, count = 0, tonumber(ARGV[3])
for index = 4, 3 + count do
  local number = ARGV[index]
  local entry = redis.call('xrange', KEYS[3], number .. '-0', number .. '-0')[1]
  if entry then
    local dead = {entry[2], tonumber(redis.call('hget', KEYS[4], number .. ':attempts') or 0), ARGV[2]}
    local ok, text = pcall(cjson.encode, dead)
    redis.call('hset', KEYS[7], number, ok and text or cjson.encode({{}, 0, ARGV[2]}))
    left = left + redis.call('xdel', KEYS[3], number .. '-0')
    redis.call('hdel', KEYS[4], number .. ':attempts')
  end
end
if left == 0 then return false end
return {now, unpack(post(4 + count))}
"""
)
"""Make dead letters of messages and put replies in. ARGV: token, reason, how many, their numbers, then the replies."""

MOVE = (
    _FENCE
    + _NOW
    + _KEEP
    + _FORGET
    + """
local count, moved, found, first = tonumber(ARGV[2]), {}, {}, nil
for index = 5, 4 + count do
  local entry = redis.call('xrange', KEYS[3], ARGV[index] .. '-0', ARGV[index] .. '-0')[1]
  if entry then found[#found + 1] = {ARGV[index], entry[2]} end
end
for place, one in ipairs(found) do
  local fields, draft = {}, redis.call('hget', KEYS[4], one[1] .. ':draft')
  local attempts = redis.call('hget', KEYS[4], one[1] .. ':attempts')
  for index = 1, #one[2], 2 do
    local name = one[2][index]
    if name == 'body' or name == 'firing' then
      fields[#fields + 1] = name
      fields[#fields + 1] = one[2][index + 1]
    end
  end
  for _, given in ipairs({'session', ARGV[3], 'values', ARGV[4], 'first', first or '', 'count', #found}) do
    fields[#fields + 1] = given
  end
  if attempts or draft then
    fields[#fields + 1] = 'noted'
    fields[#fields + 1] = '1'
  end
  local number = keep(KEYS[10], KEYS[11], fields)
  first = first or string.format('%.0f', number)
  if attempts then redis.call('hset', KEYS[12], number .. ':attempts', attempts) end
  if draft then redis.call('hset', KEYS[12], number .. ':draft', draft) end
  forget(one[1])
  moved[#moved + 1] = number
end
return moved
"""
)
"""Move messages to another partition: KEYS[10] its counter, [11] its stream, [12] what changes about its messages.

The field `noted` says that there is something about a message already: of others that come in, nobody looks for it.

ARGV: token, how many, the session, the values so far, the numbers.
"""

BEGIN_CALL = (
    _FENCE
    + """
if ARGV[2] ~= '' then
  if redis.call('hget', KEYS[8], ARGV[2] .. ':state') ~= 'yes' then return 0 end
  redis.call('hset', KEYS[8], ARGV[2] .. ':state', 'spent')
end
for index = 4, #ARGV do
  redis.call('rpush', KEYS[5] .. ARGV[index], ARGV[3])
  redis.call('sadd', KEYS[5], ARGV[index])
end
return 1
"""
)
"""Use up a yes and note a call for messages. ARGV: token, question, the call, numbers."""

END_CALL = (
    _FENCE
    + """
for index = 4, #ARGV do
  local key = KEYS[5] .. ARGV[index]
  for place = redis.call('llen', key) - 1, 0, -1 do
    if redis.call('lindex', key, place) == ARGV[2] then
      redis.call('lset', key, place, ARGV[3])
      break
    end
  end
end
return 1
"""
)
"""Note that a call has ended. ARGV: token, the call as it was noted, as it is noted now, numbers."""

NOTE = (
    _FENCE
    + """
if #redis.call('xrange', KEYS[3], ARGV[2] .. '-0', ARGV[2] .. '-0') == 0 then return 0 end
for index = 3, #ARGV, 2 do redis.call('hset', KEYS[4], ARGV[2] .. ARGV[index], ARGV[index + 1]) end
return 1
"""
)
"""Note what changes about a message or a reply that is there. ARGV: token, number, then pairs."""

ASK = (
    _FENCE
    + """
local number = redis.call('incr', KEYS[10])
redis.call('hset', KEYS[8], number, ARGV[3], number .. ':state', 'open')
redis.call('sadd', KEYS[9] .. ARGV[2], number)
return number
"""
)
"""Keep a question of a message. KEYS[10] counts them. ARGV: token, the number of the message, the question."""

ANSWER = """
for index = 4, #ARGV do
  if redis.call('hget', KEYS[1], ARGV[1] .. ':state') == ARGV[index] then
    redis.call('hset', KEYS[1], ARGV[1] .. ':state', ARGV[2])
    if ARGV[3] ~= '' then redis.call('hset', KEYS[1], ARGV[1] .. ':by', ARGV[3]) end
    return 1
  end
end
return 0
"""
"""Lead a question to another state. KEYS: questions. ARGV: number, state, by whom, and from which states."""

REMEMBER = """
for index = 2, #ARGV, 2 do
  redis.call('hset', KEYS[1], ARGV[index], ARGV[index + 1])
  redis.call('zadd', KEYS[2], redis.call('incr', KEYS[3]), ARGV[index])
end
local old = redis.call('zrange', KEYS[2], 0, -1 - ARGV[1])
for _, name in ipairs(old) do
  redis.call('hdel', KEYS[1], name)
  redis.call('zrem', KEYS[2], name)
end
return #old
"""
"""Keep notes of a channel, the newest of each name. KEYS: notes, their order, counter. ARGV: how many, then pairs."""

FOLLOW = """
if redis.call('hget', KEYS[2], ARGV[1]) ~= ARGV[2] then
  redis.call('hset', KEYS[2], ARGV[1], ARGV[2])
  redis.call('hset', KEYS[1], ARGV[1], ARGV[3])
  redis.call('hsetnx', KEYS[3], ARGV[1], 0)
end
return 1
"""
"""Follow a schedule. KEYS: since, rule, missed. ARGV: name, rule, now."""

PASS_OVER = """
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
redis.call('hincrby', KEYS[2], ARGV[1], ARGV[3])
return 1
"""
"""Note that a schedule is decided up to a time. KEYS: since, missed. ARGV: name, until, missed."""

ADD_SCHEDULE = """
local known = 0
for _, profile in ipairs(redis.call('hvals', KEYS[2])) do
  if profile == ARGV[1] then known = known + 1 end
end
if known >= tonumber(ARGV[2]) then return false end
local number = redis.call('incr', KEYS[3])
redis.call('hset', KEYS[1], number, ARGV[3])
redis.call('hset', KEYS[2], number, ARGV[1])
return number
"""
"""Keep a schedule of the agent. KEYS: bodies, profiles, counter. ARGV: profile, how many it may have, the schedule."""

DELIVERED = (
    _FENCE
    + """
redis.call('hdel', KEYS[4], ARGV[2] .. ':attempts', ARGV[2] .. ':draft', ARGV[2] .. ':not_before')
return redis.call('xdel', KEYS[3], ARGV[2] .. '-0')
"""
)
"""Take a reply out. KEYS[3] is its stream, [4] what changes about replies. ARGV: token, number."""

UNDELIVERABLE = (
    _FENCE
    + """
local entry = redis.call('xrange', KEYS[3], ARGV[2] .. '-0', ARGV[2] .. '-0')[1]
if not entry then return 0 end
local attempts = tonumber(redis.call('hget', KEYS[4], ARGV[2] .. ':attempts') or 0)
redis.call('hset', KEYS[5], ARGV[2], cjson.encode({entry[2], attempts, ARGV[3]}))
redis.call('hdel', KEYS[4], ARGV[2] .. ':attempts', ARGV[2] .. ':not_before')
return redis.call('xdel', KEYS[3], ARGV[2] .. '-0')
"""
)
"""Make a dead letter of a reply. KEYS[5]: the dead replies. ARGV: token, number, reason."""

RETRY = (
    _NOW
    + _KEEP
    + """
local known = redis.call('hget', KEYS[3], ARGV[1])
if not known then return 0 end
local fields, kept = cjson.decode(known)[1], {}
for index = 1, #fields, 2 do
  if fields[index] == 'body' or fields[index] == 'firing' then
    kept[#kept + 1] = fields[index]
    kept[#kept + 1] = fields[index + 1]
  end
end
redis.call('hdel', KEYS[3], ARGV[1])
local has_calls = redis.call('exists', KEYS[4] .. ARGV[1]) == 1
if has_calls then
  kept[#kept + 1] = 'noted'
  kept[#kept + 1] = '1'
end
local number = keep(KEYS[1], KEYS[2], kept)
if has_calls then
  redis.call('rename', KEYS[4] .. ARGV[1], KEYS[4] .. number)
  redis.call('srem', KEYS[4], ARGV[1])
  redis.call('sadd', KEYS[4], number)
end
return number
"""
)
"""Let a dead letter wait again, behind all others, with the calls noted for it; its session is found again.

KEYS: counter, stream, the dead, the noted calls. ARGV: number.
"""

DROP = (
    _FORGET
    + """
if redis.call('hdel', KEYS[7], ARGV[1]) == 1 then forget(ARGV[1]) end
return 1
"""
)
"""Forget a dead letter. KEYS are those of its partition. ARGV: number."""
