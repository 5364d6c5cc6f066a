"""The scripts of the tapes in a Redis: each is one step, all or nothing.

An entry of a tape is one of a stream, `1-0`, `2-0` … without a gap: the length of the stream is its last id. It has the
fields `v` (the version of its format) and `e` (the entry as JSON, without its id). Beside the stream lie its anchors,
twice: by their ids, and by their names, each followed by an id of 16 digits.
"""

from __future__ import annotations

_PROVE = """
if redis.call('exists', KEYS[1]) == 1 then return 0 end
if ARGV[1] ~= '' and redis.call('get', KEYS[2]) ~= ARGV[1] then return redis.error_reply('FENCED') end
"""
"""Nothing is left to do if this very write was done before and its answer was lost. Who lost the lease does nothing."""

_NOTE = """
redis.call('set', KEYS[1], '', 'px', ARGV[2])
return 1
"""

EXTEND = (
    _PROVE
    + """
local last, bytes = redis.call('xlen', KEYS[4]), 0
local function add(given, from)
  for index = from, #given, 2 do
    local text, anchor = given[index], given[index + 1]
    last = last + 1
    redis.call('xadd', KEYS[4], last .. '-0', 'v', ARGV[4], 'e', text)
    bytes = bytes + #text
    if anchor ~= '' then redis.call('zadd', KEYS[5], last, last) end
    if #anchor > 1 then redis.call('zadd', KEYS[6], 0, anchor .. string.format('%016d', last)) end
  end
end
local staged = KEYS[7] and redis.call('llen', KEYS[7]) or 0
if staged ~= tonumber(ARGV[5]) then return redis.error_reply('LOST') end
for first = 0, staged - 1, 600 do add(redis.call('lrange', KEYS[7], first, first + 599), 1) end
if staged > 0 then redis.call('del', KEYS[7]) end
add(ARGV, 6)
redis.call('hincrby', KEYS[3], ARGV[3], bytes)
"""
    + _NOTE
)
"""Write entries at the end of a tape: those that were staged in parts, and those that come along.

Keys: the note of this write, the lease, all tapes, the tape, its anchors, their names, what was staged (or none).
Arguments: the token of the lease, how long the note is kept, the name of the tape, the format, how many pieces were
staged; then for each entry its JSON, and how the index names it if it is an anchor: "-" if it has no name, else "".
"""

RESET = (
    _PROVE
    + """
redis.call('hdel', KEYS[3], ARGV[3])
redis.call('unlink', KEYS[4], KEYS[5], KEYS[6])
"""
    + _NOTE
)
"""Forget a tape. Keys and arguments as for `EXTEND`."""

FIND = """
local function last(name)
  if name == '' then
    local newest = redis.call('zrevrange', KEYS[2], 0, 0)[1]
    return newest and tonumber(newest)
  end
  local found = redis.call('zrevrangebylex', KEYS[3], '(' .. name .. ':', '[' .. name, 'limit', 0, 1)[1]
  return found and tonumber(string.sub(found, -16))
end
local low, high = 1, redis.call('xlen', KEYS[1])
if ARGV[1] == 'cursor' then
  low, high = tonumber(ARGV[2]), tonumber(ARGV[3])
elseif ARGV[1] == 'tail' then
  low = last('') or 1
else
  if ARGV[1] == 'after' then
    local after = last(ARGV[2])
    if not after then return {'after'} end
    low = after + 1
  end
  if ARGV[3] ~= '' then
    local start = last(ARGV[3])
    if not start then return {'start'} end
    local least, most = string.format('[%s%016d', ARGV[4], start + 1), '(' .. ARGV[4] .. ':'
    local stop = redis.call('zrangebylex', KEYS[3], least, most, 'limit', 0, 1)[1]
    if not stop then return {'end'} end
    if start >= low then low = start + 1 end
    high = tonumber(string.sub(stop, -16)) - 1
  end
end

local backwards, most, found, bytes, step = ARGV[5] == '1', tonumber(ARGV[6]), {}, 0, 8
while low <= high and #found < most and bytes < 1048576 do
  local entries, count = {}, math.min(step, most - #found)
  if ARGV[7] == '1' then
    local ids
    if backwards then
      ids = redis.call('zrevrangebyscore', KEYS[2], high, low, 'limit', 0, count)
    else
      ids = redis.call('zrangebyscore', KEYS[2], low, high, 'limit', 0, count)
    end
    for index, id in ipairs(ids) do entries[index] = redis.call('xrange', KEYS[1], id .. '-0', id .. '-0')[1] end
  elseif backwards then
    entries = redis.call('xrevrange', KEYS[1], high .. '-0', low .. '-0', 'count', count)
  else
    entries = redis.call('xrange', KEYS[1], low .. '-0', high .. '-0', 'count', count)
  end
  for _, entry in ipairs(entries) do
    found[#found + 1] = entry
    bytes = bytes + #entry[2][4]
  end
  if #entries < count then
    low = high + 1
  elseif backwards then
    high = tonumber(string.match(entries[#entries][1], '^%d+')) - 1
  else
    low = tonumber(string.match(entries[#entries][1], '^%d+')) + 1
  end
  step = step * 2
end
return {'', low, high, found}
"""
"""Find the first entries that a query wants: as many as make a slice, so that nobody waits for long.

Keys: the tape, its anchors, their names. Arguments: "after" and how the index names an anchor ("" for any), or "cursor"
and from which id on to which, or "tail" for the last anchor and what is behind it; the anchors between which it looks,
"" for none; "1" for the newest first; how many at most; "1" for anchors alone. The answer is what is missing ("after",
"start", "end") or "", then from which id on to which the rest lies, and the entries.
"""
