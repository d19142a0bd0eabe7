"""The Multi-Cluster Services API (KEP-1645): what all exports of one service make together.

Pure: offers are merged, and the objects that say so are planned; writing is the cluster's part.
"""
