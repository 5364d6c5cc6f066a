from bub.pipeline.check.case_rules import CASE_RULES as CASE_RULES
from bub.pipeline.check.cases import Case as Case
from bub.pipeline.check.cases import cases_by_profile as cases_by_profile
from bub.pipeline.check.literal_secrets import literal_secrets as literal_secrets
from bub.pipeline.check.schema_errors import explain_errors as explain_errors
from bub.pipeline.check.schema_errors import explain_layer as explain_layer
from bub.pipeline.check.sections import check_sections as check_sections
from bub.pipeline.check.sections import sections_of as sections_of
