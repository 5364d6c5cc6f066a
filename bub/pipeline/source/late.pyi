from bub.pipeline.source.yaml_errors import explain_error as explain_error
from bub.plugins.installed.pipelines import installed_pipeline as installed_pipeline
from bub.plugins.installed.pipelines import installed_pipelines as installed_pipelines
from bub.plugins.schemas import installed_section as installed_section
