from bub.pipeline.source.yaml_errors import explain_error as explain_error
from bub.plugins.schemas import installed_section as installed_section
