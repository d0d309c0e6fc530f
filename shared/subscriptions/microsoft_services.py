"""Recognizes Entra ID applications that are Microsoft's own services."""

from __future__ import annotations

import re

# Domains of services in all clouds; without onmicrosoft.com, azurewebsites.net and the like, under
# which customers have applications.
_DOMAINS = (
    *("aadrm.com", "applicationinsights.io", "applicationinsights.us", "azconfig.io", "azmk8s.io"),
    *("azure.cn", "azure.com", "azure.net", "azure.us", "azurecr.cn", "azurecr.io", "azurecr.us"),
    *("azuredatabricks.net", "azurehdinsight.cn", "azurehdinsight.net", "azurehdinsight.us"),
    *("azurehealthcareapis.com", "azureml.ms", "azureml.net", "azuresynapse.net"),
    *("botframework.com", "chinacloudapi.cn", "cloudapi.de", "dynamics.cn", "dynamics.com"),
    *("loganalytics.io", "loganalytics.us", "microsoft.cn", "microsoft.com", "microsoft.us"),
    *("microsoftazure.de", "microsoftazure.us", "microsoftdynamics.us", "microsoftonline.com"),
    *("microsoftonline.us", "office.com", "office.net", "office365.com", "office365.us"),
    *("onenote.com", "outlook.com", "powerapps.com", "powerbi.com", "sharepoint.com"),
    *("sharepoint.us", "skype.com", "skypeforbusiness.com", "usgovcloudapi.net"),
    *("visualstudio.com", "windows.net", "windowsazure.cn", "windowsazure.com", "windowsazure.us"),
    "yammer.com",
)
_IDS = frozenset(
    {
        "e406a681-f3d4-42a8-90b6-c2b029497af1",  # Azure Storage
        "797f4846-ba00-4fd7-ba43-dac1f8f63013",  # Azure Resource Manager
        "cfa8b339-82a2-471a-a3c9-0fc0be7a4093",  # Azure Key Vault
        "589d5083-6f11-4d30-a62a-a4b316a14abf",  # Azure Key Vault Managed HSM
        "fb60f99c-7a34-4190-8149-302f77469936",  # token exchange for workload identity federation
        "022907d3-0f1b-48f7-badc-1ba6abab6d66",  # Azure SQL Database
        "123cd850-d9df-40bd-94d5-c9f07b7fa203",  # Azure Database for PostgreSQL and MySQL
        "1ac05c7e-12d2-4605-bf9d-549d7041c6b3",  # Azure Synapse Analytics
        "2746ea77-4702-4b45-80ca-3c97e680e8b7",  # Azure Data Explorer
        "a232010e-820c-4083-83bb-3ace5fc29d0b",  # Azure Cosmos DB
        "57506a73-e302-42a9-b869-6f12d9ec29e9",  # Azure Cosmos DB, for governments
        "e9f49c6b-5ce5-44c8-925d-015017e9f7ad",  # Azure Data Lake
        "80a10ef9-8168-493d-abf9-3297c4ef6e3c",  # Azure Service Bus
        "80369ed6-5f11-4dd9-bef3-692475845e77",  # Azure Event Hubs
        "4962773b-9cdb-44cf-a8bf-237846a00ab7",  # Azure Event Grid
        "823c0a78-5de0-4445-a7f5-c2f42d7dc89b",  # Azure Event Grid, publishing
        "6a0ec4d3-30cb-4a83-91c0-ae56bc0e3d26",  # Azure Container Registry
        "6dae42f8-4368-4678-94ff-3960e28e3630",  # Azure Kubernetes Service
        "ddbf3205-c6bd-46ae-8127-60eb93363864",  # Azure Batch
        "2ff814a6-3304-4ab8-85cb-cd0e6f879c1d",  # Azure Databricks
        "ca7f3f0b-7d91-482c-8e09-c5d840d0eac5",  # Log Analytics
        "f5c26e74-f226-4ae8-85f0-b4af0080ac9e",  # Application Insights
        "7d312290-28c8-473c-a0ed-8e53749b6d6d",  # Azure AI services
        "18a66f5f-dbdf-4c17-9dd7-1634712a9cbe",  # Azure Machine Learning
        "880da380-985e-4198-81b9-e05b1cc53158",  # Azure AI Search
        "73c2949e-da2d-457a-9607-fcc665198967",  # Microsoft Purview
        "499b84ac-1321-427f-aa17-267ca6975798",  # Azure DevOps
        "c5393580-f805-4401-95e8-94b7a6ef2fc2",  # Office 365 management
        "cc15fd57-2c6c-4117-a88c-83b1d56b4bbe",  # Microsoft Teams
        "2d4d3d8e-2be3-4bef-9f87-7875a61c29de",  # OneNote
    }
)
_FAMILIES = re.compile(r"[0-9a-f]{8}-0000-0(000-c0|ff1-ce)00-000000000000")  # Graph, Exchange …
_FEDERATION = "azureadtokenexchange"  # may be followed by the name of a cloud
_ANY_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_microsoft_service(application: str, host: str) -> bool:
    """Tell whether *application*, an id or a URI with this *host*, is a known Microsoft service."""
    host = host.lower()
    if any(f".{host}".endswith(f".{domain}") for domain in _DOMAINS):
        return True
    if host.startswith(_FEDERATION):
        return True
    ids = _ANY_ID.findall(application.lower())
    return any(each in _IDS or _FAMILIES.fullmatch(each) for each in ids)
