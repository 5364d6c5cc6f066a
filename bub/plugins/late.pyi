from bub_reference.bridge.reading import begin_adoption as begin_adoption
