from bub.runtime.hosts.islands import IslandHost as IslandHost
