from bub.pipeline.source.yaml_errors import explain_error as explain_error
