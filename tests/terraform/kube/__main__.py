"""`python -m tests.terraform.kube` builds the API server and fetches the operators' definitions."""

from tests.terraform.kube import build, folder, is_built

if not is_built():
    build()
print(folder())
