from bub.runtime.hosts.islands import IslandHost as IslandHost
from bub.runtime.hosts.islands import SharedHost as SharedHost
